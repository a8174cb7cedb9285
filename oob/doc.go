// SPDX-License-Identifier: Apache-2.0

// Package oob connects queue pairs out of band: where there is no connection
// manager, the two sides tell each other over any net.Conn which QP they have, and
// each moves its own. What goes over the wire is what rdma-core's
// ibv_rc_pingpong and its siblings exchange, so the peer may be one of them.
//
// With a QP of type RC or UC and a connection to the peer:
//
//	gid, err := dev.GIDFor(1, netip.Addr{})
//	path := oob.Path{SGIDIndex: gid.Index}
//	err = path.Init(qp)                            // now receives can be posted
//	own, err := oob.Local(qp, &path)
//	remote, err := oob.ConnectActive(ctx, conn, qp, &path, own) // the other side: ConnectPassive
//
// A datagram QP goes the same way, and Path.AH is then the peer's address.
//
// iWARP cannot do without the connection manager: use package cm.
package oob
