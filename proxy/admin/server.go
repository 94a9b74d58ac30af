package admin

import (
	"log/slog"
	"net/http"
	"time"
)

// Server returns the server of either handler, with its limits: the ops port
// may be public. A handler that streams lifts the time to write for itself, by
// [http.ResponseController].
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute, // longer than most scrape intervals
		MaxHeaderBytes:    64 << 10,        // a browser sends us the cookies of everything else on localhost
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// net/http would answer OPTIONS * by itself, ahead of every check.
		DisableGeneralOptionsHandler: true,
	}
}
