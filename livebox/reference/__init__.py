"""The reference pages: plain HTML of both documents, and Swagger UI for trying operations out."""
