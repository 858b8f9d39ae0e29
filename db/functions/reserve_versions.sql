CREATE OR REPLACE FUNCTION livebox.reserve_versions(rows jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT ordinality - 1 AS position, (value ->> 'run_id')::uuid AS run_id, (value ->> 'epoch')::bigint AS epoch,
               (value ->> 'base')::bigint AS base, (value ->> 'version')::bigint AS version
          FROM jsonb_array_elements(rows) WITH ORDINALITY
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r JOIN given g ON g.run_id = r.id
         WHERE r.live_epoch = g.epoch AND r.state IN ('queued', 'running', 'waiting_input')
    ), locked AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), reserved AS (
        UPDATE livebox.runs r SET version_reserved = greatest(r.version_reserved, g.version)
          FROM given g, locked l
         WHERE r.id = l.id AND g.run_id = l.id AND r.live_epoch = g.epoch
           AND r.state IN ('queued', 'running', 'waiting_input')
           AND r.version <= g.base
        RETURNING g.position, r.version_reserved
    )
    SELECT jsonb_build_object('position', d.position, 'outcome', 'saved', 'reserved', d.version_reserved)
      FROM reserved d
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome', 'lost')
      FROM given g
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
        OR (EXISTS (SELECT FROM locked l WHERE l.id = g.run_id)
            AND NOT EXISTS (SELECT FROM reserved d WHERE d.position = g.position))
$$;
COMMENT ON FUNCTION livebox.reserve_versions(jsonb) IS
    'Sets versions aside for patches up to a mark: [{run_id, epoch, base: the live version, version: the mark}]. Gives {position, outcome: saved | lost, reserved} for each row but those of runs that are locked by others. lost: owned by another, ended, or raised past the live version.';
