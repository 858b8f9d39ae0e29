CREATE OR REPLACE FUNCTION livebox.reported_step_count(p_run livebox.runs) RETURNS numeric LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sum(value::numeric) FROM jsonb_each_text(p_run.reported_steps)
$$;
COMMENT ON FUNCTION livebox.reported_step_count(livebox.runs) IS 'The steps that all reporters of a run count together; NULL when none does.';
