CREATE OR REPLACE FUNCTION livebox.list_agent_run_snapshots(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    RETURN livebox.snapshot_page(livebox.caller_id(p_caller), p_args);
END $$;
COMMENT ON FUNCTION livebox.list_agent_run_snapshots(jsonb, jsonb) IS
    'Records of all units of work that the caller may see and that the filters (source, active, parent) may concern.';
