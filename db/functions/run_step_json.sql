CREATE OR REPLACE FUNCTION livebox.run_step_json(p_step livebox.run_steps) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', p_step.id,
        'run_id', p_step.run_id,
        'ordinal', p_step.ordinal,
        'parent_step_id', p_step.parent_step_id,
        'kind', p_step.kind,
        'name', p_step.name,
        'title', p_step.title,
        'status', p_step.status,
        'started_at', livebox.utc(p_step.started_at),
        'finished_at', livebox.utc(p_step.finished_at),
        'duration_ms', p_step.duration_ms)) || jsonb_build_object('detail', p_step.detail);
END $$;
COMMENT ON FUNCTION livebox.run_step_json(livebox.run_steps) IS 'A step as clients see it.';
