CREATE OR REPLACE FUNCTION livebox.run_conflict(p_code text, p_run livebox.runs) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN livebox.refused(p_code, jsonb_build_object('current', livebox.run_current_json(p_run)));
END $$;
COMMENT ON FUNCTION livebox.run_conflict(text, livebox.runs) IS 'Refuses with where the run is. Only for a caller that may read it.';
