CREATE OR REPLACE FUNCTION livebox.keep_reason(p_run livebox.runs, p_original text, p_max_bytes bigint) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := livebox.run_now(p_run);
BEGIN
    INSERT INTO livebox.run_steps (run_id, id, ordinal, kind, name, status, detail, started_at, finished_at)
    VALUES (p_run.id, livebox.new_id(), p_run.step_count + 1, 'status', 'adapter_reason', 'failed',
            livebox.original_reason(p_original, p_max_bytes), v_now, v_now);
    p_run.step_count := p_run.step_count + 1;
    RETURN p_run;
END $$;
COMMENT ON FUNCTION livebox.keep_reason(livebox.runs, text, bigint) IS
    'Keeps what an adapter gave as reason, which it may not set, in a step; gives the run with the step counted, to be written by the transition that follows.';
