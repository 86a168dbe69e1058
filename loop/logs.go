package loop

import (
	"fmt"
	"log/slog"
	"time"
)

// sparse lets one line through per second, and counts the others.
type sparse struct {
	next    time.Duration
	skipped int
}

func (l *sparse) allow(now time.Duration) (skipped int, ok bool) {
	if now < l.next {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped = l.skipped, 0
	l.next = now + time.Second
	return skipped, true
}

// offence logs what a client did wrong, at most once a second and reactor: a client
// must not be able to fill the log.
func (r *reactor) offence(what string, s *session, attrs ...any) {
	skipped, ok := r.offences.allow(r.now)
	if !ok {
		return
	}
	r.log.With("conn", s.conn.ID, "remote", s.conn.Remote, "others_not_shown", skipped).Info(what, attrs...)
}

// gnetLogger passes what gnet says to slog. Its news are details here: what matters we
// report ourselves.
type gnetLogger struct{ log *slog.Logger }

// Debugf implements gnet's logging.Logger.
func (l gnetLogger) Debugf(format string, args ...any) {
	l.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}

// Infof implements gnet's logging.Logger.
func (l gnetLogger) Infof(format string, args ...any) { l.Debugf(format, args...) }

// Warnf implements gnet's logging.Logger.
func (l gnetLogger) Warnf(format string, args ...any) { l.Debugf(format, args...) }

// Errorf implements gnet's logging.Logger.
func (l gnetLogger) Errorf(format string, args ...any) {
	l.log.Error("gnet: " + fmt.Sprintf(format, args...))
}

// Fatalf implements gnet's logging.Logger.
func (l gnetLogger) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
