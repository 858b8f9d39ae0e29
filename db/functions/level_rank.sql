CREATE OR REPLACE FUNCTION livebox.level_rank(level text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE level WHEN 'read' THEN 1 WHEN 'write' THEN 2 WHEN 'trigger' THEN 3 WHEN 'manage' THEN 4 END::smallint
$$;
COMMENT ON FUNCTION livebox.level_rank(text) IS 'A level as a number that compares: read 1, write 2, trigger 3, manage 4.';
