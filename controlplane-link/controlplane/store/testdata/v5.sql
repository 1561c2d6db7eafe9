-- after v4.sql
INSERT INTO certificates VALUES ('preview.example.net', 1, 'first', 'wswj3y/82UV0Is9+5zIaZJO6ohAlU+Tq8g5YTBbv');
