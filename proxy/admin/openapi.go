package admin

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API. A test writes it from the routes and their types.
//
//go:embed openapi.json
var openAPI []byte

// showOpenAPI is GET /api/v1/openapi.json.
func (s *server) showOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, "application/json", openAPI)
}
