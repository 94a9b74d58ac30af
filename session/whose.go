package session

// Whose tells whose request it is: DESIGN calls the classes own, cross
// navigation and cross.
type Whose uint8

// The classes of requests.
const (
	Own             Whose = iota // the client's own: every matching cookie
	CrossNavigation              // a link or GET form on a foreign page: SameSite None, Lax and unspecified
	Cross                        // a foreign page's own doing: only fresh values of names the client sent
)

// Evidence is what a request shows of who made it.
type Evidence struct {
	Method string
	Secure bool   // the request is https or wss
	Host   string // canonical target

	WebSocket bool

	FetchSite, FetchMode, FetchDest string // the Sec-Fetch-* fields
	Origin, Referer                 string
	UpgradeInsecureRequests         bool

	// Browser: this client has, with this User-Agent, sent Fetch metadata
	// before. It sends none to plain http sites.
	Browser bool
}

// WhoseRequest judges the evidence. A client without Fetch metadata, Origin or
// history is taken at its word: scrapers send a foreign Referer by habit.
func WhoseRequest(e Evidence) Whose { panic("not built") }
