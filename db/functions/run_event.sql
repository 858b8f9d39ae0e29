-- Every event of a run is written here, so that all of them carry the same summary.
CREATE OR REPLACE FUNCTION livebox.run_event(p_type text, p_run livebox.runs, p_actor uuid, p_extra jsonb DEFAULT '{}')
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM livebox.append_event(
        p_type, p_actor, jsonb_strip_nulls(jsonb_build_object('thread_id', p_run.thread_id)), 'run', p_run.id::text,
        p_run.version, 'run.read', jsonb_build_object('run', livebox.run_summary_json(p_run)) || p_extra);
END $$;
COMMENT ON FUNCTION livebox.run_event(text, livebox.runs, uuid, jsonb) IS
    'Appends run.registered, run.state_changed or run.changed with the summary of the run as it is now; p_actor is NULL when the server acts.';
