package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what a publishing run measured. Latency is from the hand-over to
// the client until its report, in microseconds, at saturation: it says how long
// a full window takes, not how fast an idle broker answers.
type Report struct {
	Config  PubConfig
	Elapsed time.Duration // counted time
	OK      int64         // answers in it
	Failed  int64
	LastErr error // of the failures, the last
	Latency *hdrhistogram.Histogram
}

// Rate returns OKs per second.
func (r *Report) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.OK) / r.Elapsed.Seconds()
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	c := r.Config
	_, err := fmt.Fprintf(w, `publish, saturation: %d connections x %d in flight, %d B values, %.1f s counted
  %.0f messages/s   %.1f MB/s   %d OK   %d failed
  publish to OK, ms: p50 %.2f   p90 %.2f   p99 %.2f   p99.9 %.2f   max %.2f
`, c.Connections, c.InFlight, c.Size, r.Elapsed.Seconds(),
		r.Rate(), r.Rate()*float64(c.Size)/1e6, r.OK, r.Failed,
		r.ms(50), r.ms(90), r.ms(99), r.ms(99.9), float64(r.Latency.Max())/1e3)
	if err == nil && r.LastErr != nil {
		_, err = fmt.Fprintf(w, "  last failure: %v\n", r.LastErr)
	}
	return err
}

func (r *Report) ms(q float64) float64 { return float64(r.Latency.ValueAtQuantile(q)) / 1e3 }
