-- after v8.sql
INSERT INTO runner_groups VALUES ('acme', 'tests', 'demo', 'shop', '{"cluster":"demo"}', 8, 1764450000000000000, 1764450000000000000, 0, '{"kind":"user","id":"u1","name":"ada@example.com","role":"admin"}', '{"applied":8,"ready":1}');
INSERT INTO jobs VALUES ('acme', 'j-abc', 'demo', 'shop', 'tests', 'a', 'abcdefghijklm', '{"runnerGroup":"tests"}', 9, 9, 1764450000000000000, 0, 0, 0, 1764450000000000000, 1764450000000000000, 'succeeded', '{"kind":"user","id":"u1","name":"ada@example.com","role":"member"}', '{"phase":"succeeded"}');
