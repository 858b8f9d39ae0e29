CREATE OR REPLACE FUNCTION livebox.release_live(rows jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT ordinality - 1 AS position, (value ->> 'run_id')::uuid AS run_id, (value ->> 'epoch')::bigint AS epoch
          FROM jsonb_array_elements(rows) WITH ORDINALITY
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r JOIN given g ON g.run_id = r.id
         WHERE r.live_epoch = g.epoch AND r.live_owner IS NOT NULL AND r.state IN ('queued', 'running', 'waiting_input')
    ), locked AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), released AS (
        UPDATE livebox.runs r SET live_owner = NULL
          FROM given g, locked l
         WHERE r.id = l.id AND g.run_id = l.id AND r.live_epoch = g.epoch AND r.finished_at IS NULL
        RETURNING g.position
    )
    SELECT jsonb_build_object('position', d.position, 'outcome', 'released') FROM released d
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome', 'lost') FROM given g
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
        OR (EXISTS (SELECT FROM locked l WHERE l.id = g.run_id)
            AND NOT EXISTS (SELECT FROM released d WHERE d.position = g.position))
$$;
COMMENT ON FUNCTION livebox.release_live(jsonb) IS
    'Gives live documents up that have nothing to save: [{run_id, epoch}]. Gives {position, outcome: released | lost} for each row but those of runs that are locked by others.';
