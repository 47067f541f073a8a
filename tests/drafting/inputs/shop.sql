CREATE TABLE product(id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE sale(product_id INTEGER, day TEXT, qty INTEGER);
INSERT INTO product VALUES (1,'bolt',0.35),(2,'nut',0.2),(3,'saw',19.9);
INSERT INTO sale VALUES (1,'2026-01-05',100),(2,'2026-01-05',50),(3,'2026-01-07',2),(1,'2026-02-01',30);
