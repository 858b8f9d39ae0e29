// Swagger UI on this server's own document. Nothing is kept, and nothing is asked of anybody else.

/** The contract without the examples of what may be left out: Swagger UI would send them, and none fits what is here. */
async function contract() {
  const answer = await fetch("openapi.json");
  const spec = await answer.json();
  const holders = Object.values(spec.paths).flatMap((item) => [item, ...Object.values(item)]);
  const listed = holders.flatMap((holder) => holder.parameters ?? []);
  for (const parameter of [...Object.values(spec.components.parameters), ...listed]) {
    if (!parameter.required) delete parameter.example;
  }
  return spec;
}

contract().then((spec) =>
  SwaggerUIBundle({
    spec,
    dom_id: "#swagger-ui",
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    persistAuthorization: false,
    tryItOutEnabled: true,
    validatorUrl: "none",
  }),
);
