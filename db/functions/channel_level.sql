CREATE OR REPLACE FUNCTION livebox.channel_level(p_principal uuid, p_channel uuid) RETURNS smallint
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce((SELECT v.level FROM livebox.visible_channels(p_principal) v WHERE v.channel_id = p_channel), 0::smallint);
END $$;
COMMENT ON FUNCTION livebox.channel_level(uuid, uuid) IS
    'The level of a principal on one channel as a number; 0 for none, and also for a channel that is not there (the same statement answers both).';
