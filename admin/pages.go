package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/VictoriaMetrics/metrics"
)

const index = `MortarMQ admin

/metrics       Prometheus text
/livez         200 as long as the process answers
/readyz        200 when clients are served, else 503 and why
/healthz       the same as /readyz
/stats         topics, groups, shards, connections and errors as JSON
/debug/pprof/  Go profiles, on loopback only
`

// newMux wires the pages. local tells whether only this machine reaches them.
func newMux(o Options, local bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, index) })
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if ok, reason := o.Source.Ready(); !ok {
			plain(w, http.StatusServiceUnavailable, reason+"\n")
			return
		}
		plain(w, http.StatusOK, "ok\n")
	}
	mux.HandleFunc("GET /readyz", ready)
	mux.HandleFunc("GET /healthz", ready)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeStats(w, o.Source) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		if !o.Metrics {
			plain(w, http.StatusNotFound, "metrics are switched off: set metrics_enabled to true\n")
			return
		}
		var page bytes.Buffer // gathered first: a slow reader must not hold the metrics' locks
		o.Source.WriteMetrics(&page)
		metrics.WriteProcessMetrics(&page)
		body(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", page.Bytes())
	})
	mux.Handle("GET /debug/pprof/", profiles(local))
	return mux
}

func writeStats(w http.ResponseWriter, source Source) {
	stats := source.Stats()
	stats.lists()
	page, err := json.Marshal(stats)
	if err != nil {
		plain(w, http.StatusInternalServerError, fmt.Sprintf("the statistics do not encode: %v\n", err))
		return
	}
	body(w, http.StatusOK, "application/json", append(page, '\n'))
}

// profiles serves Go's profiles, or says where they are to be had.
func profiles(local bool) http.Handler {
	mux := http.NewServeMux()
	if !local {
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			plain(w, http.StatusForbidden, "profiles are served only while listen_admin is a loopback address\n")
		})
		return mux
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func plain(w http.ResponseWriter, status int, text string) {
	body(w, status, "text/plain; charset=utf-8", []byte(text))
}

func body(w http.ResponseWriter, status int, kind string, page []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.Copy(w, bytes.NewReader(page)) // a reader that went away is its own affair
}
