CREATE OR REPLACE FUNCTION livebox.owner_sees(p_channel uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM livebox.channels c WHERE c.id = p_channel AND c.kind = 'channel')
$$;
COMMENT ON FUNCTION livebox.owner_sees(uuid) IS 'Whether owners see a channel for being owners: all but DMs.';
