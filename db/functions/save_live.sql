CREATE OR REPLACE FUNCTION livebox.save_live(rows jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE AS $$
    WITH given AS MATERIALIZED (
        SELECT ordinality - 1 AS position,
               (value ->> 'run_id')::uuid AS run_id,
               (value ->> 'epoch')::bigint AS epoch,
               (value ->> 'version')::bigint AS version,
               (value ->> 'block')::bigint AS block,
               coalesce((value ->> 'final')::boolean, false) AS final,
               coalesce((value ->> 'release')::boolean, false) AS release,
               value -> 'document' AS document
          FROM jsonb_array_elements(rows) WITH ORDINALITY
    ), present AS MATERIALIZED (
        SELECT r.id FROM livebox.runs r JOIN given g ON g.run_id = r.id WHERE r.live_epoch = g.epoch
    ), locked AS MATERIALIZED (
        SELECT r.id, r.live_epoch, r.version, r.live_version, r.finished_at, r.document_final FROM livebox.runs r
         WHERE r.id = ANY ((SELECT array_agg(p.id) FROM present p)::uuid[])
         ORDER BY r.id
           FOR NO KEY UPDATE SKIP LOCKED
    ), saved AS (
        UPDATE livebox.runs r
           SET document = g.document,
               document_as_of = greatest(r.document_as_of, livebox.clock()),
               document_final = r.document_final OR g.final,
               version = g.version,
               version_reserved = greatest(r.version_reserved, g.version + g.block),
               live_version = g.version,
               live_owner = CASE WHEN g.final OR g.release THEN NULL ELSE r.live_owner END
          FROM given g, locked l
         WHERE r.id = l.id AND g.run_id = l.id AND r.live_epoch = g.epoch
           AND (r.version < g.version OR (g.release AND r.version = g.version AND r.live_version = g.version))
           AND (r.finished_at IS NOT NULL) = g.final AND NOT r.document_final
        RETURNING g.position, r.version_reserved
    )
    SELECT jsonb_build_object('position', s.position, 'outcome', 'saved', 'reserved', s.version_reserved) FROM saved s
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome',
                              CASE WHEN l.live_epoch <> g.epoch THEN 'lost'
                                   WHEN l.live_version = g.version THEN 'saved'
                                   ELSE 'overtaken' END)
      FROM given g JOIN locked l ON l.id = g.run_id
     WHERE NOT EXISTS (SELECT FROM saved s WHERE s.position = g.position)
    UNION ALL
    SELECT jsonb_build_object('position', g.position, 'outcome', 'lost') FROM given g
     WHERE NOT EXISTS (SELECT FROM present p WHERE p.id = g.run_id)
$$;
COMMENT ON FUNCTION livebox.save_live(jsonb) IS
    'Saves live content where its owner still owns it and nobody raised the run past it: [{run_id, epoch, version, document, block: versions to set aside, final?: the one save after the end, release?: owned no longer}]. Gives {position, outcome: saved | overtaken | lost} for each row but those of runs that are locked by others.';
