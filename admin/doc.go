// Package admin serves HTTP for operators on listen_admin: metrics, health, statistics, profiles.
//
//	/metrics       Prometheus text; 404 when metrics_enabled is false
//	/livez         200 as long as the process answers
//	/readyz        200 when clients are served, else 503 and the reason in words
//	/healthz       the same as /readyz; a probe that restarts the process belongs on /livez
//	/stats         JSON, see Stats; what `mortarmq topics list` prints
//	/debug/pprof/  Go profiles, only while listen_admin is a loopback address
//
// There is no authentication: whoever reaches the port may read names and numbers of topics and groups, never a message or a token. So the
// default address is loopback, and profiles, which can show what is in memory and keep a CPU busy, stay there.
//
// It promises to change nothing: every page is a GET. It knows no other package of the broker; the numbers come through Source.
//
// Reading order: server.go, pages.go, stats.go.
package admin
