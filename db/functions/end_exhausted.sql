CREATE OR REPLACE FUNCTION livebox.end_exhausted(p_run livebox.runs, p_limits jsonb) RETURNS livebox.run_change
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_run.finished_at IS NULL AND (
           p_run.spend_tokens >= (p_run.budget->>'tokens')::bigint
           OR p_run.spend_entries > 0 AND p_run.cost_micros >= (p_run.budget->'cost'->>'amount_micros')::bigint
           OR greatest(p_run.step_count, livebox.reported_step_count(p_run)) >= (p_run.budget->>'steps')::bigint) THEN
        RETURN livebox.transition_run(p_run, 'failed', 'budget_exhausted', 'server', NULL, '{}', p_limits);
    END IF;
    RETURN ROW(p_run, NULL)::livebox.run_change;
END $$;
COMMENT ON FUNCTION livebox.end_exhausted(livebox.runs, jsonb) IS
    'Ends an active run that has reached its budget of tokens, cost or steps; gives any other back as it is. Needs the limit event.body_max_bytes.';
