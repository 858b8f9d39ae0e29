CREATE OR REPLACE FUNCTION livebox.trigger_state_of(p_state text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE p_state
        WHEN 'queued' THEN 'received'
        WHEN 'running' THEN 'working'
        WHEN 'completed' THEN 'done'
        WHEN 'failed' THEN 'failed'
        WHEN 'cancelled' THEN 'cancelled'
    END
$$;
COMMENT ON FUNCTION livebox.trigger_state_of(text) IS
    'The trigger state that a message gets when its run enters a state; NULL where it stays as it is (waiting_input).';
