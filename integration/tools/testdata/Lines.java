import java.lang.management.ManagementFactory;

/**
 * Keeps memory in two lines of one method. Prints each line's number and how many bytes the VM has given out there by
 * its own count.
 */
public class Lines {
	static final com.sun.management.ThreadMXBean count =
		(com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
	static final byte[][] kept = new byte[192][];

	static long given() {
		return count.getThreadAllocatedBytes(Thread.currentThread().getId());
	}

	static long[] work() {
		long more = 0, less = 0;
		for (int i = 0; i < 192; i += 2) {
			long begun = given();
			kept[i] = new byte[1 << 20];
			long between = given();
			kept[i + 1] = new byte[3 << 17];
			more += between - begun;
			less += given() - between;
		}
		return new long[] {more, less};
	}

	public static void main(String[] args) throws InterruptedException {
		given();
		Thread.sleep(6000); // headwater has found the VM by then, on a busy machine as well
		long[] bytes = work();
		Thread.sleep(3000); // methods have no names any more once the VM has ended
		System.out.println("20 " + bytes[0]);
		System.out.println("22 " + bytes[1]);
	}
}
