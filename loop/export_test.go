package loop

import "net"

// Crowd is crowd.
const Crowd = crowd

// Serve is Listen on a listener of the test's.
func Serve(ln net.Listener, cfg Config, b Backend) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return serve(ln, cfg, b)
}
