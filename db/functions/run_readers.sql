CREATE OR REPLACE FUNCTION livebox.run_readers(p_run uuid) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_jsonb(array_remove(ARRAY[r.registered_by::text, r.agent_id::text, r.user_dims->>'user_id'], NULL)
                    || coalesce(r.agents, '{}')::text[])
      FROM livebox.runs r WHERE r.id = p_run AND r.thread_id IS NULL
$$;
COMMENT ON FUNCTION livebox.run_readers(uuid) IS
    'Who reads a run without a thread by being named in it, as ids; owners read it beside them (authorize_run decides the same for one principal).';
