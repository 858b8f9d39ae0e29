CREATE OR REPLACE FUNCTION livebox.time_of(p_text text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_text ~ '[+-][0-9]{2}:[0-9]{2}$'
                THEN (left(p_text, -6)::timestamp - right(p_text, 6)::interval) AT TIME ZONE 'UTC'
                ELSE p_text::timestamptz END
$$;
COMMENT ON FUNCTION livebox.time_of(text) IS
    'The time in a text of RFC 3339, whose offset may be up to 23:59; a timestamptz is read with less than 16 hours only.';
