// Package cli is the command line: one file per subcommand, named after it.
//
// It promises: results on standard output and everything else on standard error; an error is one line that names what is wrong and what to
// do, with the code's name when the broker refused; exit codes are 0 done, 2 bad arguments or settings, 3 broker unreachable, 4 refused or
// failed, 130 interrupted. What lists prints tab-separated columns in a fixed order, or JSON with --json; columns are only ever
// added at the end.
//
// It never prints a token, never creates a topic on the side, and never acknowledges a message whose bytes it has not written out.
//
// Only this package and main.go touch the process: its arguments, environment, signals, standard files. Commands get them through an app, so
// that tests can give them others.
//
// Reading order: root.go, errors.go, connect.go, serve.go, topics_*.go, pub.go with lines.go and progress.go, sub.go with format.go, the rest.
package cli
