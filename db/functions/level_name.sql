CREATE OR REPLACE FUNCTION livebox.level_name(rank smallint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE rank WHEN 1 THEN 'read' WHEN 2 THEN 'write' WHEN 3 THEN 'trigger' WHEN 4 THEN 'manage' END
$$;
COMMENT ON FUNCTION livebox.level_name(smallint) IS 'The name of a level''s number; NULL where there is none.';
