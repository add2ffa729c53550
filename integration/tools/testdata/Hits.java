import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Writes and allocates in two functions, each its own number of bytes, in turn in several threads. */
public class Hits {
    static final int MUCH = 100000, LITTLE = 30000;
    static final byte[] much = new byte[MUCH], little = new byte[LITTLE];
    static FileOutputStream to;

    static void writesMuch(List<ByteBuffer> kept) throws Exception {
        kept.add(ByteBuffer.allocateDirect(MUCH));
        to.write(much);
    }

    static void writesLittle(List<ByteBuffer> kept) throws Exception {
        kept.add(ByteBuffer.allocateDirect(LITTLE));
        to.write(little);
    }

    static void middle(List<ByteBuffer> kept) throws Exception {
        writesMuch(kept);
        writesLittle(kept);
    }

    static void outer() {
        List<ByteBuffer> kept = new ArrayList<>();
        try {
            while (true) {
                for (int i = 0; i < 4; i++) middle(kept);
                Thread.sleep(50);
                if (kept.size() > 4000) kept.clear();
            }
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        to = new FileOutputStream("/dev/null");
        for (int i = 1; i < Integer.parseInt(args[0]); i++) new Thread(Hits::outer).start();
        outer();
    }
}
