// SPDX-License-Identifier: Apache-2.0

package streamconn

// Handover calls try until it returns true or an error. try takes over memory of the program, instead of
// copying it as Write does. Like Space of a Protocol, try does not wait. If it returns false, Handover
// waits until WakeWriter, Close or the write deadline. A concurrent Write waits until Handover returns.
// Errors are *net.OpError.
func Handover(c *Conn, try func() (bool, error)) error {
	c.wr.mu.Lock()
	defer c.wr.mu.Unlock()
	for {
		c.wr.reset()
		if err := c.wr.err(); err != nil {
			return c.opError("write", err)
		}
		if done, err := try(); done || err != nil {
			return c.opError("write", err)
		}
		c.wr.sleep()
	}
}
