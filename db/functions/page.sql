CREATE OR REPLACE FUNCTION livebox.page(p_items text, p_cursor jsonb) RETURNS livebox.answer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ROW('ok', '{"items": [' || coalesce(p_items, '') || ']}', NULL, NULL, NULL, p_cursor, NULL)::livebox.answer
$$;
COMMENT ON FUNCTION livebox.page(text, jsonb) IS 'The answer of a list: its items as JSON texts joined by commas, and the key of the last examined row where the list goes on.';
