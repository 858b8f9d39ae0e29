CREATE OR REPLACE FUNCTION livebox.event_unplaced(p_event livebox.events) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    p_event.payload := p_event.payload - 'channel_id' - 'space_id' - 'level';
    RETURN livebox.event_json(p_event);
END $$;
COMMENT ON FUNCTION livebox.event_unplaced(livebox.events) IS
    'access.changed as it is told to who does not see the place it speaks of.';
