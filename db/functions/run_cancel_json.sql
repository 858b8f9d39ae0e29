CREATE OR REPLACE FUNCTION livebox.run_cancel_json(p_run livebox.runs) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_run.cancel_requested_at IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
        'requested_by', p_run.cancel_requested_by,
        'requested_at', livebox.utc(p_run.cancel_requested_at),
        'deadline', livebox.utc(p_run.cancel_deadline),
        'acknowledged_at', livebox.utc(p_run.cancel_acknowledged_at),
        'outcome', p_run.cancel_outcome)) END
$$;
COMMENT ON FUNCTION livebox.run_cancel_json(livebox.runs) IS 'The receipt of a request to cancel; NULL when nobody asked.';
