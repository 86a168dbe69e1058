package broker

import (
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/mortarmq/mortarmq/admin"
)

// metricSet holds the metrics that are counted as things happen. The others are
// read from the floors when they are asked for.
type metricSet struct {
	set       *metrics.Set
	fdatasync *metrics.Histogram
	syncBytes *metrics.Histogram
}

func newMetricSet() *metricSet {
	set := metrics.NewSet()
	return &metricSet{
		set:       set,
		fdatasync: set.NewHistogram("mortarmq_fdatasync_duration_seconds"),
		syncBytes: set.NewHistogram("mortarmq_fdatasync_bytes"),
	}
}

// onSync is called by the writers of the shards' logs.
func (m *metricSet) onSync(d time.Duration, bytes int) {
	m.fdatasync.Update(d.Seconds())
	m.syncBytes.Update(float64(bytes))
}

// WriteMetrics implements admin.Source.
func (b *Broker) WriteMetrics(w io.Writer) {
	b.metrics.set.WritePrometheus(w)
	st := b.Stats()
	ready := 0
	if st.Ready {
		ready = 1
	}
	gauge(w, "mortarmq_ready", ready)
	gauge(w, "mortarmq_connections", st.Connections.Open)
	counter(w, "mortarmq_connections_accepted_total", st.Connections.Accepted)
	counter(w, "mortarmq_connections_refused_total", st.Connections.Refused)
	for _, e := range st.Errors {
		counter(w, fmt.Sprintf("mortarmq_errors_total{code=%q,name=%q}", e.Code, e.Name), e.Count)
	}
	for i := range st.Topics {
		writeTopic(w, &st.Topics[i])
	}
	for _, s := range st.Shards {
		label := fmt.Sprintf("{shard=\"%d\"}", s.ID)
		counter(w, "mortarmq_log_written_bytes_total"+label, s.WrittenBytes)
		counter(w, "mortarmq_log_fdatasyncs_total"+label, s.Fsyncs)
		gauge(w, "mortarmq_log_bytes"+label, s.LogBytes)
		gauge(w, "mortarmq_log_last_index"+label, s.LastIndex)
	}
}

func writeTopic(w io.Writer, t *admin.Topic) {
	label := fmt.Sprintf("{topic=%q}", t.Name)
	counter(w, "mortarmq_topic_produced_total"+label, t.Produced)
	counter(w, "mortarmq_topic_delivered_total"+label, t.Delivered)
	counter(w, "mortarmq_topic_dead_lettered_total"+label, t.DeadLettered)
	counter(w, "mortarmq_topic_quarantined_total"+label, t.Quarantined)
	for _, g := range t.Groups {
		label := fmt.Sprintf("{topic=%q,group=%q,twin=\"%t\"}", t.Name, g.Name, g.Twin)
		gauge(w, "mortarmq_group_lag"+label, g.Lag)
		gauge(w, "mortarmq_group_in_flight"+label, g.InFlight)
		gauge(w, "mortarmq_group_members"+label, g.Members)
	}
}

type number interface {
	~int | ~int64 | ~uint64
}

func gauge[N number](w io.Writer, name string, v N)   { metrics.WriteGaugeUint64(w, name, uint64(v)) }
func counter[N number](w io.Writer, name string, v N) { metrics.WriteCounterUint64(w, name, uint64(v)) }
