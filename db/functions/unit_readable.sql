-- Where the run of its parent is comes first, as in lists of runs: authorize decides on what is left.
DROP FUNCTION IF EXISTS livebox.unit_readable(uuid, boolean, livebox.agent_snapshots);
CREATE OR REPLACE FUNCTION livebox.unit_readable(
    p_principal uuid, p_owner boolean, p_channels uuid[], p_unit livebox.agent_snapshots) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_owner OR p_unit.owner_id = p_principal
        OR CASE WHEN EXISTS (SELECT FROM livebox.runs r LEFT JOIN livebox.threads t ON t.id = r.thread_id
                              WHERE r.id = p_unit.parent_run_id
                                AND (t.channel_id = ANY (p_channels) OR livebox.run_names(r, p_principal)))
                THEN livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', p_unit.parent_run_id)) IS NULL
                ELSE false END;
END $$;
COMMENT ON FUNCTION livebox.unit_readable(uuid, boolean, uuid[], livebox.agent_snapshots) IS
    'Whether a principal sees a published unit of work: who published it, owners of the instance (p_owner), and whoever may read the run that it names as parent. p_channels: where the principal has rights by name.';
