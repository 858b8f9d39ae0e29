CREATE OR REPLACE FUNCTION livebox.run_answer(p_run uuid) RETURNS livebox.answer LANGUAGE sql STABLE AS $$
    SELECT livebox.done('ok', livebox.run_json(r), r.version) FROM livebox.runs r WHERE r.id = p_run
$$;
COMMENT ON FUNCTION livebox.run_answer(uuid) IS 'Answers a repeated operation with the run as it is stored.';
