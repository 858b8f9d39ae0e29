CREATE OR REPLACE FUNCTION livebox.scan_max() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 20000::bigint';
COMMENT ON FUNCTION livebox.scan_max() IS
    'Rows that one page examines at most while it looks for rows that the asker may see. Bounds the time of a page; where it is reached, the page goes on with its cursor.';
