CREATE OR REPLACE FUNCTION livebox.space_level(p_principal uuid, p_space uuid) RETURNS smallint
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT v.level FROM livebox.visible_spaces(p_principal) v WHERE v.space_id = p_space);
END $$;
COMMENT ON FUNCTION livebox.space_level(uuid, uuid) IS
    'The level of a principal on a space: NULL where it may not see the space or there is none, 0 where it sees only some of its channels.';
