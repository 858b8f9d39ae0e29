CREATE OR REPLACE FUNCTION livebox.unit_readable(p_principal uuid, p_owner boolean, p_unit livebox.agent_snapshots) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_owner OR p_unit.owner_id = p_principal
        OR p_unit.parent_run_id IS NOT NULL
           AND livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', p_unit.parent_run_id)) IS NULL;
END $$;
COMMENT ON FUNCTION livebox.unit_readable(uuid, boolean, livebox.agent_snapshots) IS
    'Whether a principal sees a published unit of work: who published it, owners of the instance (p_owner), and whoever may read the run that it names as parent.';
