CREATE OR REPLACE FUNCTION livebox.run_conflict(p_code text, p_run livebox.runs) RETURNS livebox.answer LANGUAGE sql STABLE AS $$
    SELECT livebox.refused(p_code, jsonb_build_object('current', livebox.run_current_json(p_run)))
$$;
COMMENT ON FUNCTION livebox.run_conflict(text, livebox.runs) IS 'Refuses with where the run is. Only for a caller that may read it.';
