CREATE OR REPLACE FUNCTION livebox.cancel_outcome_of(p_from text, p_to text, p_reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_to = 'completed' THEN 'lost_to_completed'
        WHEN p_to = 'failed' THEN 'lost_to_failed'
        WHEN p_to <> 'cancelled' THEN NULL
        WHEN p_reason = 'cancel_timeout' THEN 'forced'
        WHEN p_reason <> 'user_cancelled' THEN 'lost_to_cancelled'
        WHEN p_from = 'queued' THEN 'before_start'
        WHEN p_from = 'waiting_input' THEN 'while_waiting'
        ELSE 'acknowledged'
    END
$$;
COMMENT ON FUNCTION livebox.cancel_outcome_of(text, text, text) IS
    'What became of a request to cancel when its run goes from one state to another for a reason; NULL while it is open.';
