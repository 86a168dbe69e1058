package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a Source whose answers a test sets.
type fake struct {
	mu     sync.Mutex
	reason string
	stats  Stats
}

func (f *fake) Ready() (bool, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason == "", f.reason
}

func (f *fake) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

func (f *fake) WriteMetrics(w io.Writer) { fmt.Fprintln(w, "mortarmq_connections 7") }

func start(t *testing.T, o Options) string {
	t.Helper()
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s.Addr().String()
}

func get(t *testing.T, addr, path string) (int, string, http.Header) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(page), resp.Header
}

func TestHealthFollowsReadiness(t *testing.T) {
	src := &fake{reason: "shard 1 is being recovered"}
	addr := start(t, Options{Listen: "127.0.0.1:0", Source: src})
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, page, _ := get(t, addr, path); code != 503 || page != "shard 1 is being recovered\n" {
			t.Errorf("%s: %d %q", path, code, page)
		}
	}
	if code, page, _ := get(t, addr, "/livez"); code != 200 || page != "ok\n" {
		t.Errorf("livez: %d %q", code, page)
	}
	src.mu.Lock()
	src.reason = ""
	src.mu.Unlock()
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, page, _ := get(t, addr, path); code != 200 || page != "ok\n" {
			t.Errorf("%s: %d %q", path, code, page)
		}
	}
}

func TestMetricsAreTheBrokersAndTheProcesses(t *testing.T) {
	code, page, h := get(t, start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}, Metrics: true}), "/metrics")
	if code != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v", code, h)
	}
	for _, want := range []string{"mortarmq_connections 7\n", "process_resident_memory_bytes ", "go_goroutines "} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	code, page, _ = get(t, start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}}), "/metrics")
	if code != 404 || !strings.Contains(page, "metrics_enabled") {
		t.Errorf("switched off: %d %q", code, page)
	}
}

func TestStatsAreJSONWithoutNull(t *testing.T) {
	src := &fake{stats: Stats{
		Version: "1", NodeID: 1, Ready: true, UptimeSeconds: 1.5,
		Topics: []Topic{{ID: 1, Name: "a", TwinID: 2, Partitions: 4, Produced: 1 << 60}, {ID: 3, Name: "b", Groups: []Group{{ID: 1, Name: "g", Members: 2, Lag: 9}}}},
	}}
	code, page, h := get(t, start(t, Options{Listen: "127.0.0.1:0", Source: src}), "/stats")
	if code != 200 || h.Get("Content-Type") != "application/json" || strings.Contains(page, "null") {
		t.Errorf("%d %v %s", code, h, page)
	}
	var got Stats
	if err := json.Unmarshal([]byte(page), &got); err != nil {
		t.Fatal(err)
	}
	want := src.stats
	want.lists()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	addr := start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}})
	for _, path := range []string{"/stats", "/healthz", "/metrics", "/debug/pprof/"} {
		resp, err := http.Post("http://"+addr+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, resp.StatusCode)
		}
	}
	if code, _, _ := get(t, addr, "/nothing"); code != 404 {
		t.Errorf("unknown page: %d", code)
	}
	if code, page, _ := get(t, addr, "/"); code != 200 || !strings.Contains(page, "/stats") {
		t.Errorf("index: %d %q", code, page)
	}
}

func TestProfilesStayOnLoopback(t *testing.T) {
	if code, page, _ := get(t, start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}}), "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(page, "goroutine profile") {
		t.Errorf("on loopback: %d", code)
	}
	var log bytes.Buffer
	addr := start(t, Options{Listen: "0.0.0.0:0", Source: &fake{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		if code, page, _ := get(t, "127.0.0.1:"+port, path); code != 403 || !strings.Contains(page, "loopback") {
			t.Errorf("%s beyond loopback: %d %q", path, code, page)
		}
	}
	if !strings.Contains(log.String(), "no authentication") {
		t.Errorf("no warning was logged: %s", log.String())
	}
}

func TestATakenPortNamesTheSetting(t *testing.T) {
	addr := start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}})
	_, err := Listen(Options{Listen: addr, Source: &fake{}})
	if err == nil || !strings.Contains(err.Error(), "listen_admin "+addr) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAboveTheLimitAreClosedAndSlotsComeBack(t *testing.T) {
	addr := start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}})
	var held []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	// Connections are accepted in order, so the next one is above the limit.
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(4 * time.Second)); err != nil { // below headerTimeout, when the others go
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("above the limit: read %d, %v", n, err)
	}
	c.Close()
	for _, c := range held {
		c.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for {
		resp, err := client.Get("http://" + addr + "/livez")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("slots do not come back: %v", err)
		}
	}
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	addr := start(t, Options{Listen: "127.0.0.1:0", Source: &fake{}})
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // closed while we were still writing
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
