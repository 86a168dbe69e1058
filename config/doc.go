// Package config holds the broker's settings: one struct, one table of keys, and the rules for reading them.
//
// The table in keys.go is the only place that names a key. The file, the environment, the flags, `config show` and the README's
// table are all driven by it, so a key exists everywhere or nowhere.
//
// It promises that flags win over the environment, the environment over the file, the file over the defaults; that a wrong setting is never
// ignored or rounded; and that all faults come back at once, each with the place it was written at and with what is allowed there. A key
// whose feature is not built yet accepts only the value that does what it says.
//
// It never reads anything but the one file it is told to, opens no socket, and touches no data directory.
//
// Reading order: config.go, keys.go, kinds.go, check.go, load.go, file.go, show.go.
package config
