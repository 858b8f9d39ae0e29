DROP FUNCTION IF EXISTS livebox.run_conflict(text, livebox.runs);
CREATE OR REPLACE FUNCTION livebox.run_conflict(p_code text, p_run livebox.runs, p_principal uuid) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN livebox.refused(p_code, CASE
        WHEN livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', p_run.id)) IS NULL
        THEN jsonb_build_object('current', livebox.run_current_json(p_run)) END);
END $$;
COMMENT ON FUNCTION livebox.run_conflict(text, livebox.runs, uuid) IS
    'Refuses with where the run is, for who may read it: an agent that still holds a run whose place it can no longer read is not told.';
