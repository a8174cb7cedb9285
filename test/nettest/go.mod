// The suite for net.Conn of golang.org/x/net: a module of its own, so that importers of purerdma
// never get it.
module purerdma/test/nettest

go 1.26.0

require (
	golang.org/x/net v0.59.0
	purerdma v0.0.0
)

require (
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace purerdma => ../..
