// SPDX-License-Identifier: Apache-2.0

// Package oob connects queue pairs out of band, without the connection manager. The two sides
// exchange the addresses of their QPs over any net.Conn, and each side moves its own QP. The
// exchange is compatible with rdma-core's ibv_rc_pingpong and its siblings, so the peer may be
// one of these programs.
//
// With a QP of type RC or UC and a connection to the peer:
//
//	gid, err := dev.GIDFor(1, netip.Addr{})
//	path := oob.Path{SGIDIndex: gid.Index}
//	err = path.Init(qp)                            // now receives can be posted
//	own, err := oob.Local(qp, &path)
//	remote, err := oob.ConnectActive(ctx, conn, qp, &path, own) // the other side: ConnectPassive
//
// A datagram QP uses these calls as well, and Path.AH then returns the peer's address.
//
// iWARP needs the connection manager. Use package cm for it.
package oob
