-- after v10.sql
INSERT INTO tests VALUES ('acme', 'prices', '{"script":"x"}', 11, 1764450000000000000, 1764450000000000000);
INSERT INTO test_executions VALUES ('acme', 'e-abc', 12, 'demo', 'prices', '', 'a', 'abcdefghijklm', 8, '', 'x', 120000000000, 1764450000000000000, 0, 1764450060000000000, 'succeeded', '{"kind":"user","id":"u1","name":"ada@example.com","role":"member"}', '{}', '{}', '{}', 1, 0, 0, 0, 0);
