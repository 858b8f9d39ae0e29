CREATE OR REPLACE FUNCTION livebox.snapshot_steps(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    RETURN livebox.done('ok', (
        SELECT coalesce(jsonb_object_agg(n.key, livebox.named_steps(n.key::uuid, n.value)), '{}')
          FROM jsonb_each(p_args->'named') AS n
         WHERE livebox.authorize(livebox.caller_id(p_caller), 'run.read', jsonb_build_object('run_id', n.key)) IS NULL
           AND livebox.named_steps(n.key::uuid, n.value) IS NOT NULL));
END $$;
COMMENT ON FUNCTION livebox.snapshot_steps(jsonb, jsonb) IS
    'Steps by run and id, of runs that the caller may read: those that live content names and the saved document does not. `named` has the ids by run.';
