-- after v9.sql
INSERT INTO captures VALUES ('acme', 'a-abc', 'demo', 'a', '', 1764450000000000000, 1764453600000000000, 0, 0, 1764450060000000000, 3, 1, 2, 300, 'The time is over.', '{"kind":"user","id":"u1","name":"ada@example.com","role":"member"}', '{"Captures":[{"Namespace":"shop","Name":"a-abc"}],"Ready":true,"Cursors":null,"Taken":null,"Left":0,"Counts":{"seen":2,"stored":2}}');
INSERT INTO capture_segments VALUES ('acme', 'a-abc', 1, 'X', 2, 300);
